"""Export of generated threats as ASAM OpenSCENARIO XML 1.3, with the OpenDRIVE file of the route."""
