"""Memory of a call: margins around tensors, pages that end where they do, addresses beyond 2^31, and what was never written."""
