"""`mexma run`: a whole corpus, many language pairs, in units of work that any process may do."""
