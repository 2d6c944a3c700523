package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-run/lockstep/shared/sealed"
)

// NewOpener opens sealed parameters with the key that the setting sealed.key names; nil for none. It
// reads nothing yet.
func NewOpener(key string, c aws.Config) *sealed.Opener {
	switch path, isFile := strings.CutPrefix(key, "file:"); {
	case key == "":
		return nil
	case isFile:
		return sealed.NewOpener(sealed.File{Path: path}, time.Now)
	}
	return sealed.NewOpener(&keyManagement{client: kms.NewFromConfig(c), key: key}, time.Now)
}

// keyManagement is the key service of AWS.
type keyManagement struct {
	client *kms.Client
	key    string // ARN
}

// contextTenant is the field of the encryption context that has the tenant: a key that was wrapped for
// one cannot be unwrapped for another, and the trail of the key says whose values were opened.
const contextTenant = "lockstep:tenant"

// MasterKey is the ARN of the key.
func (k *keyManagement) MasterKey() (string, error) { return k.key, nil }

// GenerateKey makes a key for a tenant.
func (k *keyManagement) GenerateKey(ctx context.Context, tenant string) (plain, wrapped []byte, err error) {
	out, err := k.client.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &k.key, KeySpec: types.DataKeySpecAes256, EncryptionContext: map[string]string{contextTenant: tenant}})
	if err != nil {
		return nil, nil, keyError(err)
	}
	return out.Plaintext, out.CiphertextBlob, nil
}

// UnwrapKey returns a key that was made for the tenant.
func (k *keyManagement) UnwrapKey(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	out, err := k.client.Decrypt(ctx, &kms.DecryptInput{KeyId: &k.key, CiphertextBlob: wrapped, EncryptionContext: map[string]string{contextTenant: tenant}})
	if err != nil {
		return nil, keyError(err)
	}
	return out.Plaintext, nil
}

// keyError is why KMS does not do what it was asked for: its code alone, because the text goes into
// failures of jobs.
func keyError(err error) error {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return fmt.Errorf("KMS answers %s", refused.ErrorCode())
	}
	return errors.New("KMS does not answer")
}
