"""What is computed: shapes, matrices, what fills them."""
