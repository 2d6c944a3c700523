package infra

import (
	"fmt"
	"net/http"
)

// validateConcurrency is whether AWS takes a number as a mapping's concurrency.
func validateConcurrency(n int) error {
	if n < 2 || n > 1000 {
		return fmt.Errorf("is %d: want 2 to 1000", n)
	}
	return nil
}

// validateOrigins is whether the interface knows pages by each of these.
func validateOrigins(all []string) error {
	for _, origin := range all {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
			return fmt.Errorf("CORS origins: %q: want scheme://host[:port]", origin)
		}
	}
	return nil
}
