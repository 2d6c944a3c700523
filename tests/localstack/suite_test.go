package localstack

import "testing"

// TestDeployed bootstraps the account and deploys the app of infra, and the
// interface answers.
func TestDeployed(t *testing.T) {
	cdk(t, "bootstrap", "aws://000000000000/us-east-1")
	s := dev(t)
	s.deploy(t)
	c := s.client(t)
	if err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
}
