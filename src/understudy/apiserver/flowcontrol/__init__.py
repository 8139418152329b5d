"""API priority and fairness: which flow schema a request belongs to, and which seats it takes."""
