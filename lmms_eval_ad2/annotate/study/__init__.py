"""Human studies of pairs of answers (CODA-LM section 5.4): sampling, a voting page, conversion of the votes."""
