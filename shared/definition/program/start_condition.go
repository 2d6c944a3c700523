package program

import (
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
)

// compileStart compiles what says when a run may begin.
func (c *compiler) compileStart() {
	config := &c.definition.Config
	c.startWhen = c.compileOutsideSteps(expr.StartLanguage, config.StartWhen, "config.startWhen", true)
	if blank(config.NotBefore) {
		return
	}
	raw, err := yamldoc.Marshal(strings.TrimSpace(config.NotBefore))
	if err != nil {
		c.reportError("config.notBefore", err)
		return
	}
	c.notBefore = c.compileParameterTemplate(raw, "config.notBefore")
}
