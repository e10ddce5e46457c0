"""The 44 scenario types of Bench2Drive as Scenic programs, and the catalogue that names them."""
