package tracing

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// settings is what the environment asks for, of what is read here. The SDK itself reads
// OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SPAN_* and the resource's OTEL_RESOURCE_ATTRIBUTES
// and OTEL_SERVICE_NAME.
type settings struct {
	url     string // of the collector's traces; "" sends nothing
	headers map[string]string
	timeout time.Duration
	gzip    bool
}

// defaultTimeout is how long the sending of spans may take where nothing else is said. It is
// shorter than OpenTelemetry's ten seconds, since whoever asked waits for it.
const defaultTimeout = 2 * time.Second

// readSettings reads the environment. What it asks for and this package does not do is an
// error: nobody should wait for spans that never come.
func readSettings(getenv func(string) string) (settings, error) {
	s := settings{timeout: defaultTimeout}
	read := func(name string) string { // the traces' own variable wins
		if v := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	address := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); address == "" && base != "" {
		address = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if address == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return s, nil
	}
	if e := getenv("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return s, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not known, want otlp or none", e)
	}
	if p := read("PROTOCOL"); p != "" && p != "http/json" {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not spoken, want http/json", p)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is no http or https address")
	}
	if s.headers, err = parseHeaders(read("HEADERS")); err != nil {
		return s, err
	}
	if t := read("TIMEOUT"); t != "" {
		ms, err := strconv.Atoi(t)
		if err != nil || ms <= 0 {
			return s, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q is no number of milliseconds", t)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch c := read("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION: %q is not known, want gzip or none", c)
	}
	s.url = address
	return s, nil
}

// parseHeaders reads name=value pairs with commas between them, the values of which are
// encoded as those of an address are. An error does not repeat them: they let somebody in.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS is no list of name=value")
		}
		headers[strings.TrimSpace(name)] = decoded
	}
	return headers, nil
}
