"""Send a server what it must survive, and look what of it others notice."""
