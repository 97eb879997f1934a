"""The choice of a variant by shape: what a product costs, and how costs are fitted to a card."""
