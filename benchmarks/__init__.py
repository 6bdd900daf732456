"""Measurements, each of which runs both sides in one go and prints them with their ratio."""
