package boot

import (
	"os"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// OwnAddresses are those of the parts of the stack that this process knows: the API, the tables, the queues and
// the runtime of its function. On AWS none of them is on the machine of the process but the last one.
func OwnAddresses() (addresses []string) {
	for _, variable := range []string{topology.EnvURL, "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"} {
		if address := os.Getenv(variable); address != "" {
			addresses = append(addresses, address)
		}
	}
	if runtime := os.Getenv("AWS_LAMBDA_RUNTIME_API"); runtime != "" {
		addresses = append(addresses, "http://"+runtime)
	}
	return addresses
}
