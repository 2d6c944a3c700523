package process

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
)

// LoopbackHost returns an address of this machine for a port that only our own
// programs use. On Linux it is a random one of 127.0.0.0/8, different at each call: a
// web page in a browser of this machine, which may try ports of 127.0.0.1, cannot find
// it. Other systems have 127.0.0.1 only.
func LoopbackHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	var b [3]byte
	_, _ = rand.Read(b[:]) // it never fails
	return fmt.Sprintf("127.%d.%d.%d", 1+b[0]%254, b[1], 1+b[2]%254)
}

// PrivateDir creates a directory that only this user can enter, or makes it so.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// ListenLoopback listens on an address of this machine that was used before, if it is one and
// free, and otherwise on a free port of a [LoopbackHost].
func ListenLoopback(before string) (net.Listener, error) {
	if host, _, err := net.SplitHostPort(before); err == nil && net.ParseIP(host).IsLoopback() {
		if l, err := net.Listen("tcp", before); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", net.JoinHostPort(LoopbackHost(), "0"))
}

// ProgramsOnly refuses what a web page may send to a port that only our own programs
// use: a request from a browser, and one for another host than address, which is how a
// page reaches this machine under a name of its own.
func ProgramsOnly(address string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != address || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			http.Error(w, "this port is for the programs of the local stack", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
