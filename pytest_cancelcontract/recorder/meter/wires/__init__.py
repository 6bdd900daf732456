"""The wire formats that the meter speaks, one module each."""
