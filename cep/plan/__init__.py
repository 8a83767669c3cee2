"""Query + Topology -> PhysicalPlan, all pure: validate, split, choose balancers, place, explain."""
