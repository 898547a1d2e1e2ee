"""A payments provider on this machine: paged, rate limited, and as unreliable as a real one."""
