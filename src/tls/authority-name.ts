/** The common names of local authorities begin with it; the rest tells them apart. */
export const authorityName = 'Leat local CA ';
