"""A provider on loopback whose answers are scripted, and which counts what is spent. Judges nothing."""
