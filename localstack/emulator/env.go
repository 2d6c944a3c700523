package emulator

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// commonSettings returns the settings of LocalStack in both modes.
func commonSettings() map[string]string {
	return map[string]string{
		"PROVIDER_OVERRIDE_DYNAMODB": "v2", "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2", // v2 does not copy every item for streams
		"SQS_ENDPOINT_STRATEGY": "path", // queue URLs with a host name that resolves

		// How often a mapping polls its queue, in seconds; Lambda would long-poll.
		"LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC":             "0.05",
		"LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "0.2",

		"LS_LOG": "warning", // logging a line per request is slow

		"DISABLE_EVENTS": "1", "SKIP_SSL_CERT_DOWNLOAD": "1", // no telemetry, no downloads
	}
}

// hostSettings returns the additional settings of ModeHost.
func hostSettings(dir string, port, database int) map[string]string {
	at := "127.0.0.1:" + strconv.Itoa(port)
	return map[string]string{
		"GATEWAY_LISTEN": at, "LOCALSTACK_HOST": at, "DNS_ADDRESS": "0",
		"OVERRIDE_IN_DOCKER": "0", // else LocalStack takes any machine with /.dockerenv for its container
		"FILESYSTEM_ROOT":    filepath.Join(dir, "root"), "TMPDIR": filepath.Join(dir, "tmp"),
		"DYNAMODB_IN_MEMORY": "1", "DYNAMODB_LOCAL_PORT": strconv.Itoa(database),
		"FUNCTION_LOGS":                      filepath.Join(dir, "logs"),
		"LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60", // a busy machine starts processes slowly
		"PYTHONPATH":                         dir, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
	}
}

// clientCredentials are the credentials of clients; any key works.
var clientCredentials = map[string]string{
	"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
}

// buildEnv returns this process's environment with the settings and without the variables that lead
// to the real AWS or configure LocalStack.
func buildEnv(settings ...map[string]string) []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "AWS_") && !strings.HasPrefix(line, "LOCALSTACK_") && !strings.HasPrefix(line, "LAMBDA_") {
			env = append(env, line)
		}
	}
	for _, group := range settings {
		for key, value := range group {
			env = append(env, key+"="+value)
		}
	}
	return env
}
