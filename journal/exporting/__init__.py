"""Write bundles of a store."""
