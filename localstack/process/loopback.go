package process

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
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

// browserPorts are ports to which no browser connects for a page, whatever its host is called: the Fetch
// Standard's "bad ports" that are above 1023.
var browserPorts = []int{1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}

// ListenHidden listens where a web page cannot connect to, for a program that answers whoever does. hidden says
// whether it has found such an address: there may be none left on a system that has 127.0.0.1 only.
func ListenHidden(before string) (l net.Listener, hidden bool, err error) {
	return listenHidden(runtime.GOOS, before)
}

func listenHidden(system, before string) (l net.Listener, hidden bool, err error) {
	if system == "linux" {
		l, err = ListenLoopback(before)
		return l, true, err
	}
	ports := make([]string, 0, len(browserPorts))
	for _, i := range mathrand.Perm(len(browserPorts)) {
		ports = append(ports, strconv.Itoa(browserPorts[i]))
	}
	if _, port, err := net.SplitHostPort(before); err == nil && slices.Contains(ports, port) {
		ports = append([]string{port}, ports...)
	}
	for _, port := range ports {
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return l, true, nil
		}
	}
	l, err = ListenLoopback("")
	return l, false, err
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
