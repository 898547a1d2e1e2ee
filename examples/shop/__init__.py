"""The reference shop: generated orders and customers, and the pipeline that turns them into marts."""
