"""Hand-written kernels: arrays in, arrays out, compiled by Numba under the policy of `cep.kernels.jit`."""
