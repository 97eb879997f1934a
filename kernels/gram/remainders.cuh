// The numbers of the Chinese remainder theorem (residues.cu) for the first 14, 15 and 16 moduli,
// whose product is P. tests/chinese.py computes them exactly, and a test holds this file to them.
//
//     limit           the largest product of two columns' norms, (1 - 2^-12) P / 2
//     high, low       for each modulus p the number between -P/2 and P/2 that is 1 modulo p and 0
//                     modulo the others, in two parts
//     product_high,   P
//     product_low
//     inverse         1 / P
//
// High parts are multiples of a power of two, so that sums of them times residues are exact.
#pragma once

template <int moduli>
struct Remainder;

template <>
struct Remainder<14> {
    static constexpr double limit = 0x1.1e2de075a4263p+109, inverse = 0x1.c9e518641aa18p-111;
    static constexpr double product_high = 0x1.1e3fc471eb400p+110, product_low = 0x1.3bdc01086e91bp+64;
    static constexpr double high[] = {
        0x1.4af9bb23b8000p+107,
        -0x1.7031e5978c000p+107,
        -0x1.3ccc23466d000p+108,
        0x1.11b44daf38000p+106,
        -0x1.4dc39d8a03000p+108,
        -0x1.a217078df4000p+107,
        0x1.c71fc39610000p+108,
        -0x1.9cc9d3de83000p+108,
        -0x1.7bffb0f0a8000p+106,
        -0x1.75423beda4000p+108,
        -0x1.5d259982ec000p+106,
        -0x1.ab651bdf2e000p+108,
        -0x1.a744cff9bc000p+107,
        -0x1.47f6ba7acd000p+108};
    static constexpr double low[] = {
        0x1.ed366131bfd87p+61,
        -0x1.faa02f39d03d9p+66,
        0x1.9b3a245afd694p+66,
        0x1.57f8ce0e05580p+65,
        0x1.cbbec4c5c45abp+65,
        -0x1.aed0ae412e796p+66,
        0x1.3e7351822d438p+66,
        0x1.ee84e470684cfp+66,
        -0x1.3b17d8e510d38p+66,
        0x1.c46cf1414950ap+66,
        0x1.d78a71a16af37p+66,
        0x1.1540b466bbe02p+66,
        -0x1.e5581e6125de1p+66,
        -0x1.dd7a339aefacbp+65};
};

template <>
struct Remainder<15> {
    static constexpr double limit = 0x1.b8729b750ea2cp+116, inverse = 0x1.2983f5dbae8acp-118;
    static constexpr double product_high = 0x1.b88e245754000p+117, product_low = 0x1.81882665be8b1p+73;
    static constexpr double high[] = {
        -0x1.aac9b3349a000p+114,
        -0x1.97bac444c6800p+116,
        -0x1.afd93ef16e000p+115,
        -0x1.eb74bf7cf5000p+115,
        0x1.ac11e30d57000p+116,
        0x1.d3f9c70040000p+109,
        -0x1.6cfa93ee5f800p+116,
        0x1.2e86f6e52b800p+116,
        0x1.f43197eee3000p+115,
        0x1.e913152bf1000p+115,
        0x1.775c686f24000p+116,
        0x1.44d556f611000p+116,
        0x1.90e2677039000p+115,
        -0x1.3a5db59714000p+116,
        0x1.9702ab51fa800p+116};
    static constexpr double low[] = {
        0x1.11508359aded3p+73,
        0x1.9be725728cb8ap+73,
        0x1.fb33a85fd73a5p+72,
        0x1.eed3ad634c496p+72,
        -0x1.b5f602134b00bp+72,
        0x1.95404ca401da5p+73,
        0x1.ffcd54f1554a6p+72,
        -0x1.28bef85002003p+71,
        0x1.9015e06b21f64p+73,
        0x1.75dbeffba9cd2p+71,
        0x1.fe04b43a93e73p+71,
        0x1.67335f8e813b8p+73,
        0x1.bfe09769edb04p+71,
        -0x1.050c8e57c20d9p+73,
        0x1.811cd177fd372p+70};
};

template <>
struct Remainder<16> {
    static constexpr double limit = 0x1.4c0e67334008bp+124, inverse = 0x1.8aa1c572fa163p-126;
    static constexpr double product_high = 0x1.4c232965d6800p+125, product_low = -0x1.9d585b0d4b593p+81;
    static constexpr double high[] = {
        0x1.568442b106000p+122,
        -0x1.4305152fd8000p+122,
        -0x1.3091923afb000p+123,
        -0x1.f18b5da1bc000p+123,
        -0x1.2d35a718fc800p+124,
        0x1.b90322c910000p+119,
        -0x1.31bbae23e7000p+123,
        -0x1.6cec669e00000p+118,
        0x1.5c176f9418000p+122,
        -0x1.2a7c1328c5000p+124,
        0x1.951e4290e0000p+122,
        0x1.a671255128000p+123,
        -0x1.cba3eba3fc000p+123,
        0x1.2c6cfd90dc000p+123,
        -0x1.e58faafa3d000p+123,
        -0x1.090581dc88800p+124};
    static constexpr double low[] = {
        -0x1.cd4863bcb6b68p+81,
        0x1.d5f157649cdc7p+80,
        -0x1.f28b998a99a89p+80,
        0x1.c0891f0a140f1p+81,
        0x1.94f1be5fe6d5ap+78,
        0x1.0b9b60e63afc0p+81,
        0x1.c2bc8010fbeacp+81,
        -0x1.274d400adf7d9p+81,
        -0x1.0cc99e5fa5427p+81,
        -0x1.7ea7ce1094d6dp+81,
        0x1.8c2bed86953acp+81,
        0x1.2544a485cce86p+81,
        0x1.7f12ac32733a1p+80,
        -0x1.5ec1a5f4db022p+81,
        -0x1.56bc9f0c08d8fp+81,
        -0x1.67ebe719349fap+80};
};
