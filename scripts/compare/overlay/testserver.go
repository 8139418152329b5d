// Package testing takes the place of Kubernetes' k8s.io/kubernetes/cmd/kube-apiserver/app/testing in integration tests:
// it starts the program that KUBE_APISERVER names, with the flags that stand for a test's options, where upstream starts
// a server in the process of the test.
//
// A test that hands a function of its own to the server, or another version for its binary, is skipped.
package testing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/tracing"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/e2e/invariants/metrics"
	"k8s.io/kubernetes/test/utils/ktesting"
)

const (
	issuer       = "https://foo.bar.example.com"
	startSeconds = 120 // a busy machine starts programs late
	stopSeconds  = 90  // kube-apiserver waits a minute for requests
)

// versionFlags are those of versions and gates, which are made from the process' own gates.
var versionFlags = []string{"emulated-version", "min-compatibility-version", "feature-gates"}

// TearDownFunc ends a server.
type TearDownFunc func()

// TestServerInstanceOptions are the wishes of a test that no flag expresses.
type TestServerInstanceOptions struct {
	SkipHealthzCheck       bool
	DisableInvariantChecks bool
	EnableCertAuth         bool
	StorageVersionWrapFunc func(storageversion.Manager) storageversion.Manager
	ProxyCA                *ProxyCA
	BinaryVersion          string
	RequestTimeout         time.Duration
}

// TestServer is a server that runs.
type TestServer struct {
	ClientConfig      *restclient.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

// Logger is what tests and benchmarks have in common.
type Logger interface {
	Helper()
	Errorf(format string, args ...interface{})
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
	Cleanup(func())
}

// ProxyCA is the authority of front proxies.
type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

// NewDefaultTestServerOptions returns the wishes of a test that has none.
func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

// StartTestServerOrDie starts a server; the test fails if it does not start.
func StartTestServerOrDie(t testing.TB, wishes *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) *TestServer {
	t.Helper()
	server, err := StartTestServer(t, wishes, flags, storage)
	if err != nil {
		t.Fatalf("failed to launch server: %v", err)
	}
	return &server
}

// StartTestServer starts a server with flags, which keeps its objects in an etcd.
func StartTestServer(t ktesting.TB, wishes *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) (TestServer, error) {
	if wishes == nil {
		wishes = NewDefaultTestServerOptions()
	}
	if wishes.StorageVersionWrapFunc != nil || wishes.BinaryVersion != "" {
		t.Skip("needs a server in the process of the test")
	}
	opts, gates, err := NewOptions()
	if err != nil {
		return TestServer{}, err
	}
	folder, err := os.MkdirTemp("", "kubernetes-kube-apiserver")
	if err != nil {
		return TestServer{}, err
	}
	opts.SecureServing.ServerCert.CertDirectory = folder
	opts.ServiceClusterIPRanges = "10.0.0.0/16"
	opts.Etcd.StorageConfig = *storage
	if wishes.RequestTimeout > 0 {
		opts.GenericServerRunOptions.RequestTimeout = wishes.RequestTimeout
	}
	if wishes.EnableCertAuth {
		if err := AddAuthorities(opts, wishes.ProxyCA); err != nil {
			return TestServer{}, err
		}
	}
	given := flagSet(opts)
	if err := given.Parse(flags); err != nil {
		return TestServer{}, err
	}
	if !given.Changed("advertise-address") && !given.Changed("endpoint-reconciler-type") {
		opts.EndpointReconcilerType = "none"
	}
	if err := AddServiceAccountKey(opts); err != nil {
		return TestServer{}, err
	}
	if err := gates.Apply(t); err != nil {
		return TestServer{}, fmt.Errorf("%w\nIf you are using SetFeatureGate*DuringTest, try using --emulated-version and --feature-gates flags instead", err)
	}
	program, err := Start(t, opts, gates, !wishes.SkipHealthzCheck)
	if err != nil {
		return TestServer{}, err
	}
	etcd, _, err := GetEtcdClients(storage.Transport)
	if err != nil {
		return TestServer{}, fmt.Errorf("create etcd client: %w", err)
	}
	program.ClientConfig.QPS, program.ClientConfig.Burst = 1000, 10000
	end := sync.OnceFunc(func() {
		if !wishes.DisableInvariantChecks {
			program.CheckMetrics(t)
		}
		program.Stop()
		_ = etcd.Close()
		_ = os.RemoveAll(folder)
	})
	return TestServer{program.ClientConfig, opts, end, folder, etcd, storage.Prefix}, nil
}

// GetEtcdClients returns clients of an etcd.
func GetEtcdClients(config storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	settings := clientv3.Config{Endpoints: config.ServerList, DialTimeout: 20 * time.Second}
	if config.CertFile != "" || config.TrustedCAFile != "" {
		files := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
		security, err := files.ClientConfig()
		if err != nil {
			return nil, nil, err
		}
		settings.TLS = security
	}
	client, err := clientv3.New(settings)
	if err != nil {
		return nil, nil, err
	}
	return client, clientv3.NewKV(client), nil
}

// Gates are the release and the feature gates of a server: those of the process, changed by flags.
type Gates struct {
	registry basecompatibility.ComponentGlobalsRegistry
	version  basecompatibility.MutableEffectiveVersion
	features featuregate.MutableVersionedFeatureGate
}

// NewOptions returns the options of kube-apiserver with the gates that the process has.
func NewOptions() (*options.ServerRunOptions, *Gates, error) {
	features := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	version := compatibility.DefaultKubeEffectiveVersionForTest()
	version.SetEmulationVersion(features.EmulationVersion())
	version.SetMinCompatibilityVersion(features.MinCompatibilityVersion())
	registry := basecompatibility.NewComponentGlobalsRegistry()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, version, features); err != nil {
		return nil, nil, err
	}
	opts := options.NewServerRunOptions()
	general := opts.GenericServerRunOptions
	general.ComponentGlobalsRegistry = registry
	general.RuntimeConfigEmulationForwardCompatible = !version.BinaryVersion().EqualTo(version.EmulationVersion())
	return opts, &Gates{registry, version, features}, nil
}

// Apply sets the gates that flags have named, in the process, too: clients of the test ask them.
func (gates *Gates) Apply(t ktesting.TB) error {
	if err := gates.registry.Set(); err != nil {
		return err
	}
	process := utilfeature.DefaultMutableFeatureGate
	if !gates.features.EmulationVersion().EqualTo(process.EmulationVersion()) ||
		!gates.features.MinCompatibilityVersion().EqualTo(process.MinCompatibilityVersion()) {
		featuregatetesting.SetFeatureGateVersionsDuringTest(t, process, gates.version.EmulationVersion(), gates.version.MinCompatibilityVersion())
	}
	changed := map[featuregate.Feature]bool{}
	for feature := range process.GetAll() {
		if on := gates.features.Enabled(feature); on != process.Enabled(feature) {
			changed[feature] = on
		}
	}
	if len(changed) > 0 {
		featuregatetesting.SetFeatureGatesDuringTest(t, process, changed)
	}
	return nil
}

// flags returns the flags of the gates that differ from those of the release.
func (gates *Gates) flags() []string {
	named := []string{}
	for feature, spec := range gates.features.GetAll() {
		if on := gates.features.Enabled(feature); on != spec.Default && feature != "AllAlpha" && feature != "AllBeta" {
			named = append(named, fmt.Sprintf("%s=%t", feature, on))
		}
	}
	slices.Sort(named)
	release := func(of interface {
		Major() uint
		Minor() uint
	}) string {
		return fmt.Sprintf("%d.%d", of.Major(), of.Minor())
	}
	flags := []string{"--emulated-version=" + release(gates.version.EmulationVersion())}
	if len(named) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(named, ","))
	}
	return flags
}

// flagSet returns all flags of kube-apiserver, bound to options.
func flagSet(opts *options.ServerRunOptions) *pflag.FlagSet {
	all := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	named := opts.Flags()
	for _, each := range named.FlagSets {
		all.AddFlagSet(each)
	}
	return all
}

// flagsOf returns the flags that say in which way options differ from the default.
func flagsOf(opts *options.ServerRunOptions) []string {
	defaults, flags := flagSet(options.NewServerRunOptions()), []string{}
	flagSet(opts).VisitAll(func(flag *pflag.Flag) {
		usual := defaults.Lookup(flag.Name)
		if slices.Contains(versionFlags, flag.Name) || usual != nil && usual.Value.String() == flag.Value.String() {
			return
		}
		texts := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			texts = list.GetSlice()
		} else if slices.Contains([]string{"stringToString", "stringSlice", "namedCertKey"}, flag.Value.Type()) { // print what they do not read
			texts = strings.Split(strings.Trim(flag.Value.String(), "[]"), ";")
		}
		for _, text := range texts {
			flags = append(flags, fmt.Sprintf("--%s=%s", flag.Name, text))
		}
	})
	return flags
}

// Program is a server that runs as a program.
type Program struct {
	// ClientConfig is that of a client that may do anything, as upstream's loopback client.
	ClientConfig *restclient.Config
	// Stop ends the program, and returns when it has ended.
	Stop func()
}

// CheckMetrics lets the test fail if metrics say that the server has disagreed with itself.
func (program *Program) CheckMetrics(t ktesting.TB) {
	client := kubernetes.NewForConfigOrDie(program.ClientConfig)
	if err := metrics.CheckMetricInvariants(context.Background(), client, false); err != nil {
		t.Errorf("Invariant check failed: %v", err)
	}
}

// Start starts the program with options, to which it adds a port, a certificate and the token of its own client.
func Start(t ktesting.TB, opts *options.ServerRunOptions, gates *Gates, wait bool) (*Program, error) {
	folder := opts.SecureServing.ServerCert.CertDirectory
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	opts.SecureServing.BindAddress, opts.SecureServing.BindPort = net.IPv4(127, 0, 0, 1), port
	security, err := addServingCertificate(opts, folder)
	if err != nil {
		return nil, err
	}
	token, err := addToken(opts, folder)
	if err != nil {
		return nil, err
	}
	name := os.Getenv("KUBE_APISERVER")
	command := exec.Command(name, append(gates.flags(), flagsOf(opts)...)...)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	t.Logf("%s %s", name, strings.Join(command.Args[1:], " "))
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait()
	}()
	stop := sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopSeconds * time.Second):
			_ = command.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the server's log ends with\n%s", lastLines(log.Name(), 40))
		}
	})
	t.Cleanup(stop)
	config := &restclient.Config{
		Host:               fmt.Sprintf("https://127.0.0.1:%d", port),
		BearerToken:        token,
		TLSClientConfig:    security,
		ContentConfig:      restclient.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
		DisableCompression: true,
		QPS:                50,
		Burst:              100,
	}
	config.Wrap(tracing.WrapperFor(tracing.NewNoopTracerProvider())) // requests tell the trace that they are part of
	if err := await(config, ended, wait); err != nil {
		err = fmt.Errorf("%w\n%s", err, lastLines(log.Name(), 8))
		stop()
		return nil, err
	}
	return &Program{config, stop}, nil
}

// await returns when a server answers, and is healthy if that is asked for.
func await(config *restclient.Config, ended <-chan struct{}, healthy bool) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var last error
	for end := time.Now().Add(startSeconds * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			return errors.New("the server has ended")
		default:
		}
		if healthy {
			if last = client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(context.Background()).Error(); last != nil {
				continue
			}
		}
		if _, last = client.CoreV1().Namespaces().Get(context.Background(), metav1.NamespaceDefault, metav1.GetOptions{}); last != nil {
			continue
		}
		if _, last = client.CoreV1().Namespaces().Get(context.Background(), metav1.NamespaceSystem, metav1.GetOptions{}); last == nil {
			return nil
		}
	}
	return fmt.Errorf("the server does not become healthy: %w", last)
}

// AddServiceAccountKey makes the key of service accounts' tokens, and sets their issuer.
func AddServiceAccountKey(opts *options.ServerRunOptions) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	file := filepath.Join(opts.SecureServing.ServerCert.CertDirectory, "service-account.key")
	if err := writeKey(file, key); err != nil {
		return err
	}
	opts.ServiceAccountSigningKeyFile = file
	opts.Authentication.ServiceAccounts.KeyFiles = []string{file}
	opts.Authentication.ServiceAccounts.Issuers = []string{issuer}
	return nil
}

// AddAuthorities makes the authorities of front proxies, unless there is one, and of clients, and the certificate that
// aggregated API servers are shown.
func AddAuthorities(opts *options.ServerRunOptions, proxies *ProxyCA) error {
	folder := opts.SecureServing.ServerCert.CertDirectory
	clients, err := newAuthority("client-ca")
	if err != nil {
		return err
	}
	if proxies == nil {
		if proxies, err = newAuthority("front-proxy-ca"); err != nil {
			return err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	shown, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:      pkix.Name{CommonName: "misty"},
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    proxies.ProxySigningCert.NotBefore,
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, proxies.ProxySigningCert, key.Public(), proxies.ProxySigningKey)
	if err != nil {
		return err
	}
	headers := serveroptions.NewDelegatingAuthenticationOptions().RequestHeader
	headers.ClientCAFile = filepath.Join(folder, "proxy-ca.crt")
	headers.AllowedNames = []string{"ash", "misty", "brock"}
	*opts.Authentication.RequestHeader = headers
	opts.Authentication.ClientCert.ClientCA = filepath.Join(folder, "client-ca.crt")
	opts.ProxyClientCertFile, opts.ProxyClientKeyFile = filepath.Join(folder, "misty.crt"), filepath.Join(folder, "misty.key")
	return errors.Join(
		writeCertificate(headers.ClientCAFile, proxies.ProxySigningCert.Raw),
		writeCertificate(opts.Authentication.ClientCert.ClientCA, clients.ProxySigningCert.Raw),
		writeCertificate(opts.ProxyClientCertFile, shown),
		writeKey(opts.ProxyClientKeyFile, key),
	)
}

func newAuthority(name string) (*ProxyCA, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	return &ProxyCA{certificate, key}, err
}

// addServingCertificate makes the server's certificate; returns whom its clients trust. They trust anybody if the test
// has set a certificate.
func addServingCertificate(opts *options.ServerRunOptions, folder string) (restclient.TLSClientConfig, error) {
	files := &opts.SecureServing.ServerCert.CertKey
	if files.CertFile != "" {
		return restclient.TLSClientConfig{Insecure: true}, nil
	}
	names := []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", addresses, names)
	if err != nil {
		return restclient.TLSClientConfig{}, err
	}
	files.CertFile, files.KeyFile = filepath.Join(folder, "apiserver.crt"), filepath.Join(folder, "apiserver.key")
	err = errors.Join(os.WriteFile(files.CertFile, certificate, 0o600), os.WriteFile(files.KeyFile, key, 0o600))
	return restclient.TLSClientConfig{CAFile: files.CertFile, CAData: certificate}, err
}

// addToken adds a token of upstream's loopback user to those of the test; returns it.
func addToken(opts *options.ServerRunOptions, folder string) (string, error) {
	tokens, token := &opts.Authentication.TokenFile.TokenFile, uuid.NewString()
	lines := []byte{}
	if *tokens != "" {
		given, err := os.ReadFile(*tokens)
		if err != nil {
			return "", err
		}
		lines = append(given, '\n')
	}
	lines = append(lines, fmt.Sprintf("%s,system:apiserver,%s,system:masters\n", token, uuid.NewString())...)
	*tokens = filepath.Join(folder, "tokens.csv")
	return token, os.WriteFile(*tokens, lines, 0o600)
}

func writeCertificate(file string, der []byte) error {
	return cert.WriteCert(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func writeKey(file string, key crypto.PrivateKey) error {
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return keyutil.WriteKey(file, text)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func lastLines(file string, count int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
