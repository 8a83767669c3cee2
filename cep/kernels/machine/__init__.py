"""How kernels become machine code, and what they use of the machine."""
