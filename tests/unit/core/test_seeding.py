from coevolve.core.seeding import derive_seed, rng_for


def test_seed_depends_on_every_part_and_not_on_the_process() -> None:
    seeds = {derive_seed(0, "train", 0, 1), derive_seed(0, "train", 1, 0), derive_seed(1, "train", 0, 1)}
    assert len(seeds) == 3
    assert derive_seed("1") != derive_seed(1)
    assert derive_seed(0, "train", 0, 1) == 8562035858589965541
    assert all(0 <= derive_seed(i) < 2**63 for i in range(100))


def test_generators_with_the_same_purpose_agree() -> None:
    assert rng_for(0, "explore").random() == rng_for(0, "explore").random()
