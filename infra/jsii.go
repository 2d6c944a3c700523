package infra

import (
	"os"
	"sync"

	"github.com/aws/jsii-runtime-go"
)

// jsiiEnv are the banners that say nothing about the result. The first takes the
// major versions of Node that it is to be silent about, the others anything. What
// is not here is the warning of a Node that is known to be broken.
var jsiiEnv = map[string]string{
	"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20,22",
	"JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION":  "true",
	"JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION":    "true",
}

// SilenceJSII keeps the JavaScript kernel behind CDK from printing banners about the
// version of Node. It has to be called before anything of CDK is: the kernel is
// prepared, with a copy of the environment, when CDK's packages are initialised,
// so that it has to be prepared again. It may still print a line about waitid
// when it ends, which means nothing. Only the first call does anything.
func SilenceJSII() { silenceOnce() }

var silenceOnce = sync.OnceFunc(func() {
	for name, value := range jsiiEnv {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value) // at worst there is a banner
		}
	}
	jsii.Close()
})
