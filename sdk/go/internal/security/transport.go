package security

import (
	"crypto/tls"
	"crypto/x509"
	"net"

	"google.golang.org/grpc/credentials"
)

// ClientCredentials returns the credentials of connections with a certificate, to a member whose certificate must have the
// DNS name expected, whatever the address.
func ClientCredentials(own *Certificate, expected string) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      own.Authorities,
		ServerName:   expected,
		Certificates: []tls.Certificate{own.Own},
	})
}

// ServerCredentials returns the credentials of a port that takes members of the mesh alone. A certificate that was replaced
// counts from the next connection on.
func ServerCredentials(folder *CertificateFolder) (credentials.TransportCredentials, error) {
	if _, err := folder.Read(); err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := folder.Read()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				Certificates: []tls.Certificate{own.Own},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    own.Authorities,
				NextProtos:   []string{"h2"},
			}, nil
		},
	}), nil
}

// PeerCertificate returns the certificate of the other side of a connection; nil without TLS.
func PeerCertificate(info credentials.AuthInfo) *x509.Certificate {
	tlsInfo, ok := info.(credentials.TLSInfo)
	if !ok || len(tlsInfo.State.PeerCertificates) == 0 {
		return nil
	}
	return tlsInfo.State.PeerCertificates[0]
}

// LoopbackHost returns the loopback address of this machine: 127.0.0.1, or ::1 if it has that alone.
func LoopbackHost() string {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		_ = listener.Close()
		return "127.0.0.1"
	}
	if listener, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		_ = listener.Close()
		return "::1"
	}
	return "127.0.0.1"
}
