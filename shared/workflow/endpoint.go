package workflow

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Endpoint is the address of a block served over HTTP: either an address, or the name of an
// endpoint of the stage and a path below it. Sign says with which secret its requests are signed.
type Endpoint struct {
	URL      string            `json:"url,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Path     string            `json:"path,omitempty"`
	Timeout  Duration          `json:"timeout,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Sign     *Signing          `json:"sign,omitempty"`

	SignKey string `json:"-"` // value of the secret; only in the memory of a worker
}

// Secrets returns the names of the secrets in the headers and the signature of an endpoint, sorted.
func (e *Endpoint) Secrets() (names []string) {
	if e == nil {
		return nil
	}
	for _, value := range e.Headers {
		names = SecretNames(names, SplitSecrets(value))
	}
	if e.Sign != nil {
		names = append(names, e.Sign.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Signing says how requests are signed: with which secret, and in which header.
type Signing struct {
	Secret string `json:"secret"`
	Header string `json:"header,omitempty"` // SignatureHeader if empty
}

// Endpoints maps the names that definitions and blocks use to the addresses of a stage, so that
// they need not contain addresses.
type Endpoints map[string]string

// ParseEndpoints reads endpoints as they are configured: NAME=ADDRESS.
func ParseEndpoints(entries []string) (Endpoints, error) {
	all := Endpoints{}
	for _, e := range entries {
		name, address, _ := strings.Cut(strings.TrimSpace(e), "=")
		u, err := url.Parse(address)
		switch {
		case !ValidName(name):
			return nil, fmt.Errorf("%q is not NAME=ADDRESS: a name has a letter, then letters, digits, - and _, at most 64", e)
		case all[name] != "":
			return nil, fmt.Errorf("the endpoint %s is given twice", name)
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || u.RawQuery != "":
			return nil, fmt.Errorf("the endpoint %s has no absolute http or https address without query and fragment", name)
		case u.User != nil:
			return nil, fmt.Errorf("the address of the endpoint %s has credentials: refer to secrets in headers", name)
		}
		all[name] = address
	}
	return all, nil
}

// Check returns an issue, with the path of the value that has the name, if there is no such
// endpoint.
func (e Endpoints) Check(name, path string) *Issue {
	if name == "" || e[name] != "" {
		return nil
	}
	known := slices.Sorted(maps.Keys(e))
	message := fmt.Sprintf("this stage has no endpoint %q: add it to endpoints in its configuration%s", name, DidYouMean(name, known))
	return &Issue{Path: path, Code: "unknown_endpoint", Message: message}
}

// Address returns the address of a path below an endpoint. The path cannot lead out of the
// endpoint.
func (e Endpoints) Address(name, path string) (string, error) {
	base := e[name]
	if base == "" {
		return "", fmt.Errorf("this stage has no endpoint %q: add it to endpoints in its configuration", name)
	}
	if path == "" {
		return base, nil
	}
	u, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || u.Scheme != "" || u.Host != "" || u.Fragment != "" || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return "", fmt.Errorf("the path behind the endpoint %s does not begin with one /, or is no path", name)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("the path behind the endpoint %s leads out of it", name)
		}
	}
	return strings.TrimSuffix(base, "/") + path, nil
}
