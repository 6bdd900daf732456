"""The recorder: one small process beside pytest that watches the world, writes histories, and ends what it knows of."""
