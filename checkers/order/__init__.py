"""Order: what each reader was handed one after the other, and what offsets each producer's sends got."""
