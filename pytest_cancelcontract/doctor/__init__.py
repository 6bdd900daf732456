"""What this machine can witness: looked up, and proven on two controls."""
