"""Pure decisions: which sites a placement uses, and why. The rules are Open Cluster Management's."""
