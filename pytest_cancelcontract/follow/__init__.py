"""A drill of a live system: its run is followed, somebody else presses the button, and nobody of it is ever signalled."""
