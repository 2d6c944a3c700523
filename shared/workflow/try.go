package workflow

// ScopeOf returns the scope of the try that the step run belongs to.
func (x *Execution) ScopeOf(r *StepRun) Scope {
	if scope, ok := x.PastScopes[r.Try]; ok {
		return scope
	}
	return x.Scope
}

// LastForwardTry returns the last try that was meant to execute steps: later tries have only rolled
// back what is left of it.
func (x *Execution) LastForwardTry() int { return x.Try - x.RollbackTries }
