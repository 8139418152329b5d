"""Admission plugins that ask for rights about signers and owners besides that for the path, or refuse everybody."""
