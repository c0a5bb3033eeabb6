"""Cases, corpora and case families: everything that a kernel is fed. Imports neither torch nor triton."""
