"""Recalled text between fences, so that it is read as a quotation and known for one when it comes back."""
