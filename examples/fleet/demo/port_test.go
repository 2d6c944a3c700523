package demo

import (
	"net"
	"strings"
	"testing"
)

// Who wanted no runs is not told a command that makes some.
func TestPortInUseIsToldWithTheSameCommand(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	if err := free(port, true); err == nil || !strings.Contains(err.Error(), "bin/fleet-demo --serve --port ") {
		t.Errorf("serving: %v", err)
	}
	if err := free(port, false); err == nil || !strings.Contains(err.Error(), "bin/fleet-demo --port ") {
		t.Errorf("running: %v", err)
	}
}
