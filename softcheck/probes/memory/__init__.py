"""Memory of a call: margins around tensors, pages that end where they do, and addresses beyond 2^31."""
