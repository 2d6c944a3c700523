package localstack

import "testing"

// TestDeployed deploys the app of infra and runs the end-to-end tests on it.
func TestDeployed(t *testing.T) {
	cdk(t, "bootstrap", "aws://000000000000/us-east-1")
	s := dev(t)
	s.deploy(t)
	if err := s.client(t).Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	suite(t, s)
}
