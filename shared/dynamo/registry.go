package dynamo

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Registry is the registry's table as one piece of work sees it.
type Registry struct{ t *table.Table }

// newRegistry makes a registry on its table.
func newRegistry(t *table.Table) *Registry { return &Registry{t} }

const attrRegistryDocument = "doc"

// versionKey is a sort key under which the versions of one name follow each
// other by number: "package/name#000001.000010.000000".
func versionKey(ref workflow.Ref) (string, error) {
	v, ok := workflow.ParseSemver(ref.Version)
	if !ok {
		return "", workflow.Errorf(workflow.CodeInvalid, "%s does not name one version", ref)
	}
	return fmt.Sprintf("%s#%06d.%06d.%06d", ref.FullName(), v.Major, v.Minor, v.Patch), nil
}

// parseVersionKey reads a sort key made by versionKey.
func parseVersionKey(sk string) (workflow.Ref, error) {
	name, version, _ := strings.Cut(sk, "#")
	var v workflow.Semver
	ref, err := workflow.ParseRef(name)
	if err == nil {
		_, err = fmt.Sscanf(version, "%d.%d.%d", &v.Major, &v.Minor, &v.Patch)
	}
	if err != nil {
		return ref, workflow.Errorf(workflow.CodeInternal, "%q is not the key of a version: %w", sk, err)
	}
	ref.Version = v.String()
	return ref, nil
}

// decodeDocument reads a stored document.
func decodeDocument(packed []byte, into any) error {
	plain, err := table.Deflate.Decompress(packed)
	if err != nil {
		return err
	}
	return table.DecodeStrict(plain, into)
}
