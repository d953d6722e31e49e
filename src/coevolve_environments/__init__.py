"""Adapters of public benchmarks. Each is registered by an entry point, as the environments of other packages are."""
