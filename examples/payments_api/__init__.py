"""A payments provider on this machine: paged, rate limited, and sometimes as unwell as a real one."""
