package workflow

// ScopeOf is the scope of the try to which the step run belongs.
func (x *Execution) ScopeOf(r *StepRun) Scope {
	if scope, ok := x.PastScopes[r.Try]; ok {
		return scope
	}
	return x.Scope
}

// LastForwardTry is the last try that was to execute steps: those since have only rolled back what is left of it.
func (x *Execution) LastForwardTry() int { return x.Try - x.RollbackTries }
