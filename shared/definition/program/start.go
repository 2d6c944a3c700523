package program

import (
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/document"
	"github.com/lockstep-run/lockstep/shared/expr"
)

// start compiles what says when a run may begin.
func (c *compiler) start() {
	config := &c.definition.Config
	c.startWhen = c.outside(expr.ForStart, config.StartWhen, "config.startWhen", true)
	if blank(config.NotBefore) {
		return
	}
	raw, err := document.Marshal(strings.TrimSpace(config.NotBefore))
	if err != nil {
		c.failed("config.notBefore", err)
		return
	}
	c.notBefore = c.filled(raw, "config.notBefore")
}
