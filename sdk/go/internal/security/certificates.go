package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Certificate is the certificate of a member with its key, and the authorities that it trusts.
type Certificate struct {
	Own         tls.Certificate
	Authorities *x509.CertPool
	ID          SpiffeID
}

// CertificateFolder is a folder with tls.crt, tls.key and ca.crt, the layout of a secret of cert-manager. It is read again
// if a file has changed, at most once a second.
type CertificateFolder struct {
	Path    string
	mu      sync.Mutex
	checked time.Time
	stamps  [3]stamp
	last    *Certificate
}

// NewCertificateFolder returns a folder, which is read at the first use.
func NewCertificateFolder(path string) *CertificateFolder { return &CertificateFolder{Path: path} }

// Read returns the certificate: the same object until a file changes. Files that cannot be used leave the last one in
// force, as while they are being replaced; it is an error if there was none.
func (f *CertificateFolder) Read() (*Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && time.Since(f.checked) < interval {
		return f.last, nil
	}
	f.checked = time.Now()
	if err := f.refresh(); err != nil && f.last == nil {
		return nil, fmt.Errorf("cannot use the certificate in %s: %w", f.Path, err)
	}
	return f.last, nil
}

func (f *CertificateFolder) refresh() error {
	names := [3]string{"tls.crt", "tls.key", "ca.crt"}
	var stamps [3]stamp
	for i, name := range names {
		var err error
		if stamps[i], err = stampOf(filepath.Join(f.Path, name)); err != nil {
			return err
		}
		if stamps[i].size > maxBytes {
			return fmt.Errorf("%s has more than %d bytes", name, maxBytes)
		}
	}
	if f.last != nil && stamps == f.stamps {
		return nil
	}
	var files [3][]byte
	for i, name := range names {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(f.Path, name)); err != nil {
			return err
		}
	}
	certificate, err := parse(files[0], files[1], files[2])
	if err != nil {
		return err
	}
	f.last, f.stamps = certificate, stamps
	return nil
}

func parse(chain, key, authorities []byte) (*Certificate, error) {
	own, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("tls.crt and tls.key do not fit together, or are not PEM: %w", err)
	}
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		return nil, err
	}
	own.Leaf = leaf
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("ca.crt has no certificate")
	}
	id, err := IDOf(leaf)
	if err != nil {
		return nil, err
	}
	return &Certificate{Own: own, Authorities: pool, ID: id}, nil
}

// IDOf returns the SPIFFE id of a certificate.
func IDOf(certificate *x509.Certificate) (SpiffeID, error) {
	if len(certificate.URIs) != 1 {
		return SpiffeID{}, fmt.Errorf("the certificate has %d URIs, and needs one: spiffe://MESH/ns/TENANT/KIND/NAME",
			len(certificate.URIs))
	}
	return ParseSpiffeID(certificate.URIs[0].String())
}

var (
	foldersLock sync.Mutex
	folders     = map[string]*CertificateFolder{}
)

// OwnFolder returns the folder that ARCHON_TLS names; nil if it names none.
func OwnFolder() (*CertificateFolder, error) {
	path := os.Getenv("ARCHON_TLS")
	if path == "" {
		return nil, nil
	}
	return sharedFolder(path)
}

// FolderFor returns the certificate for connections to target: the one in ARCHON_TLS, else the user's of the mesh on this
// machine that has a service or an agent there; nil if they are not encrypted.
func FolderFor(target, host string) (*CertificateFolder, error) {
	if folder, err := OwnFolder(); folder != nil || err != nil {
		return folder, err
	}
	if !IsLoopback(host) {
		return nil, nil
	}
	for _, folder := range Candidates() {
		if folder.Encrypts(target) {
			return sharedFolder(folder.UserCertificate())
		}
	}
	return nil, nil
}

func sharedFolder(path string) (*CertificateFolder, error) {
	foldersLock.Lock()
	folder, ok := folders[path]
	if !ok {
		folder = NewCertificateFolder(path)
		folders[path] = folder
	}
	foldersLock.Unlock()
	_, err := folder.Read()
	return folder, err
}
