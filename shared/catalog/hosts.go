package catalog

import (
	"encoding/json"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// checkHosts warns about steps that call a host which workers of this stage must not call: they
// fail with HTTP_FORBIDDEN. A worker that runs elsewhere may be allowed to, so this is not an
// error.
func (c *Catalog) checkHosts(w *warner, d *spec.Definition, paths []string) {
	if c.AllowsCall == nil {
		return
	}
	for i, s := range d.FlatSteps() {
		address, field := "", ".http.url"
		if len(s.HTTP) > 0 {
			var call struct{ URL string }
			if json.Unmarshal(s.HTTP, &call) == nil && !strings.Contains(call.URL, "${") { // otherwise the host is known only at the call
				address = call.URL
			}
		} else if b := w.blocks[s.FunctionBlock]; b != nil && b.HTTP != nil {
			address, field = b.HTTP.URL, ".functionBlock"
		}
		if address == "" {
			continue
		}
		if err := c.AllowsCall(address); err != nil {
			w.warn(paths[i]+field, "http_forbidden", "%s; the step fails with HTTP_FORBIDDEN", err)
		}
	}
}
