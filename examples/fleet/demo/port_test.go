package demo

import (
	"net"
	"strings"
	"testing"
)

// Who wanted no runs is not told a command that makes some.
func TestCheckPortFree_SuggestsSameCommand(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	if err := checkPortFree(port, true); err == nil || !strings.Contains(err.Error(), "bin/fleet-demo --serve --port ") {
		t.Errorf("serving: %v", err)
	}
	if err := checkPortFree(port, false); err == nil || !strings.Contains(err.Error(), "bin/fleet-demo --port ") {
		t.Errorf("running: %v", err)
	}
}
