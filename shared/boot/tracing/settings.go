package tracing

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// settings are the environment variables that this package reads. The SDK itself reads
// OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SPAN_*, OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME.
type settings struct {
	url     string // where the collector takes traces; "" disables tracing
	headers map[string]string
	timeout time.Duration
	gzip    bool
}

// defaultTimeout bounds how long sending spans takes, unless the environment sets
// another timeout. It is shorter than OpenTelemetry's ten seconds, because the caller of
// a function waits for it.
const defaultTimeout = 2 * time.Second

// readSettings reads the environment. A setting that this package does not support is an
// error, so that nobody waits for spans that never arrive.
func readSettings(getenv func(string) string) (settings, error) {
	s := settings{timeout: defaultTimeout}
	read := func(name string) string { // the variable for traces takes precedence
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
		return s, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not supported, want otlp or none", e)
	}
	if p := read("PROTOCOL"); p != "" && p != "http/json" {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported, want http/json", p)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL")
	}
	if s.headers, err = parseHeaders(read("HEADERS")); err != nil {
		return s, err
	}
	if t := read("TIMEOUT"); t != "" {
		ms, err := strconv.Atoi(t)
		if err != nil || ms <= 0 {
			return s, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q is not a number of milliseconds", t)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch c := read("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION: %q is not supported, want gzip or none", c)
	}
	s.url = address
	return s, nil
}

// parseHeaders reads name=value pairs separated by commas, whose values are
// percent-encoded. Its error does not repeat them, because they are credentials.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS is not a list of name=value")
		}
		headers[strings.TrimSpace(name)] = decoded
	}
	return headers, nil
}
